"""Label printing: content, papers, PDF and ZPL output, and the label printer of an organization."""
