"""Turn loaded runs into statistics."""
