extern "C" int spike_kernels_version() { return 1; }
