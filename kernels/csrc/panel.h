// A panel is a piece of some rows of weights, unpacked for products with many vectors: up to 256 columns of PANEL_ROWS
// rows, in lines of four bytes a row.
#pragma once

#ifdef __AVX512VNNI__
#define PANEL_ROWS 16
#else
#define PANEL_ROWS 8
#endif
#define LINE (4 * PANEL_ROWS) // bytes

#define LINE_CODES 0   // line 8·run + k: codes 4·k to 4·k+3 of the run of 32 (with products of matrices: see put_codes)
#define LINE_SCALE 64  // a float: scale of each run, or that of the block
#define LINE_MIN 72    // a float: minimum of each run, or the scale of the minimums of the block
#define LINE_SMALL 80  // an integer: small scale j
#define LINE_SMALLMIN 96 // two 16-bit integers: small minimums of the weights from 32·j and 32·j+16 on
#define LINE_OFFSET 104  // likewise: what the sums of activations are multiplied with because codes are too large
#define LINES 112
