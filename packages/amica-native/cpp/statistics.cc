extern "C" int amica_kernels_version() { return 1; }
