"""Attention: how a decoder looks at the source. Joined from small parts (see `joined`)."""
