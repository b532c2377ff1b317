"""The Fortran program as an engine: run it, watch it, load what it wrote."""
