"""Settings: compose them, check them, explain what is wrong with them."""
