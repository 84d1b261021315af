"""Everything a browser reads, and the server of the translation page."""
