"""Attention. `attention.py` joins the parts; every other file is one part and bears the name of its Hydra group."""
