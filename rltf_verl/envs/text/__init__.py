"""Reading a text: boxed answers, numbers in words, markup, encodings."""
