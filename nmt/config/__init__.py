"""Settings: compose them, check them, compare them, and explain what is wrong with them."""
