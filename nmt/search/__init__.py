"""Search for hypotheses over word numbers: beam, sampling, constraints, ensembles. Nothing here knows of text."""
