"""Share a trained model: as a folder with a model card, and on the Hugging Face hub."""
