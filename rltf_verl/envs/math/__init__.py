"""Math problems, compared by math-verify."""
