"""The manual that the box serves: Markdown files of `web/manual`, rendered when they are first asked for."""

ADDRESS = "/manual"
INDEX = "README"  # the file with the contents, which GitHub shows for the folder
