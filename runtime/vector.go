package runtime

// addScaled adds f·x to dst.
func addScaled(dst, x []float32, f float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] += f * x[i]
	}
}

// scaleAll multiplies x by f.
func scaleAll(x []float32, f float32) {
	for i := range x {
		x[i] *= f
	}
}

// add adds x to dst.
func add(dst, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] += x[i]
	}
}
