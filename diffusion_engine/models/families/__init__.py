"""One file a family: how its `config.json` and its tensor names read in our terms."""
