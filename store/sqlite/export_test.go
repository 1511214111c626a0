package sqlite

// WithVFS makes SQLite use the given virtual file system.
func WithVFS(o Options, vfs string) *Options {
	o.vfs = vfs
	return &o
}
