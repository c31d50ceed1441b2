"""What `edge doctor` looks at: the box, the data, the broker and its readers."""
