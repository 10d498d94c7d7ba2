"""What `millrace bench` runs in Python: the real loader of PyTorch over a generated dataset."""
