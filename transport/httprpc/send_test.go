package httprpc

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestSendTakesAnEmptyAnswer checks which responses without a payload are valid: every success
// without a body, and no other.
func TestSendTakesAnEmptyAnswer(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		fine   bool
	}{
		{http.StatusOK, "", true},
		{http.StatusCreated, "", true},
		{http.StatusAccepted, "", true},
		{http.StatusNoContent, "", true},
		{http.StatusOK, "hello", false},
		{http.StatusAccepted, "hello", false},
		{http.StatusNotFound, "", false},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body) // an error shows in the test
		}))
		c := NewClient(web.URL, nil)
		err := c.Send(t.Context(), []byte(`{"jsonrpc":"2.0","method":"x"}`), func(payload []byte) error {
			t.Errorf("%d %q: a payload: %q", tt.status, tt.body, payload)
			return nil
		})
		if (err == nil) != tt.fine {
			t.Errorf("%d %q: %v, want it to be fine: %t", tt.status, tt.body, err, tt.fine)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		web.Close()
	}
}
