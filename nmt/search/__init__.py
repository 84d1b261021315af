"""Search for hypotheses over word ids: beam, sampling, constraints, ensembles. Nothing here uses text."""
