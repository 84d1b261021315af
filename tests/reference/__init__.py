"""The equations of the papers as slow loops over one sentence, in float64. The fast models are compared with them.

Names are as in the papers; positions j = 1..J and steps i = 1..I count from 1. "mechanisms.md" is in docs/.
"""
