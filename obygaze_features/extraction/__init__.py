"""From a plan to committed blocks: decode, batch, forward, write."""
