/* Preloaded before OpenBLAS: an OpenBLAS that does not know its processor. */
char* openblas_get_corename(void) { return "Prescott"; }
