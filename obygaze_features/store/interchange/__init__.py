"""Features in the formats other people use: imported into stores, exported from stores."""
