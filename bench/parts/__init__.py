"""What several measurements share. `make bench` runs the files beside this folder, not those in it."""
