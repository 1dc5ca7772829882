"""In verl's trainer and its workers: advantages, loss, teacher."""
