"""From films to features: compare, plan, decode, compute, write blocks, seal."""
