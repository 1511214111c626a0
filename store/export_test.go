package store

// Waiting returns for how many keys Tails are waiting because the log does not exist yet.
func Waiting(m *Memory) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting)
}
