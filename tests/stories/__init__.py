"""What a user must be able to do: one file a story, which types its commands in a workspace."""
