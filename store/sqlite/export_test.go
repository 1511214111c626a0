package sqlite

// WithVFS makes SQLite use another way to its files.
func WithVFS(o Options, vfs string) *Options {
	o.vfs = vfs
	return &o
}
