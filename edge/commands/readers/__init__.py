"""`edge reader` with all of its commands."""

from edge.commands.readers import fleet
from edge.commands.readers.readers import reader

reader.add_command(fleet.import_readers)
