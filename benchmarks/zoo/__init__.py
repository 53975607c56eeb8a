"""The paper's tables, beside a plain PyTorch loop."""
