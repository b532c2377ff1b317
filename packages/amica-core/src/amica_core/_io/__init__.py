"""Files and objects of other programs: the Fortran program, EEGLAB, MNE."""
