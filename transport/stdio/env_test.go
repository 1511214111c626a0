package stdio

import (
	"slices"
	"testing"
)

func TestCleanEnv(t *testing.T) {
	ours := []string{
		"PATH=/bin", "HOME=/home/me", "USER=me", "LANG=C", "LC_ALL=C", "LC_TIME=C", "TZ=UTC", "TMPDIR=/tmp", "SystemRoot=C:\\Windows", "path=/lower",
		"AWS_SECRET=canary", "LD_PRELOAD=/tmp/harm.so", "NODE_OPTIONS=--require harm", "PATHOLOGY=x", "EMPTY=", "LC=x",
	}
	base := []string{"PATH=/bin", "HOME=/home/me", "USER=me", "LANG=C", "LC_ALL=C", "LC_TIME=C", "TZ=UTC", "TMPDIR=/tmp"}
	for _, c := range []struct {
		name        string
		named       []string
		windows     bool
		want, risky []string
	}{
		{name: "nothing named", want: base},
		{name: "named wins", named: []string{"PATH=/opt", "TOKEN=a=b"}, want: append([]string{"PATH=/opt"}, append(slices.Clone(base[1:]), "TOKEN=a=b")...)},
		{name: "risky only when named", named: []string{"LD_PRELOAD=/x.so", "PYTHONPATH=.", "LD_PRELOAD=/y.so", "DYLD_INSERT_LIBRARIES=z", "GODEBUG=a=1"},
			want:  append(slices.Clone(base), "LD_PRELOAD=/y.so", "PYTHONPATH=.", "DYLD_INSERT_LIBRARIES=z", "GODEBUG=a=1"),
			risky: []string{"LD_PRELOAD", "PYTHONPATH", "DYLD_INSERT_LIBRARIES", "GODEBUG"}},
		{name: "no entries", named: []string{"PATH", "=x", ""}, want: base},
		{name: "Windows", windows: true, want: append([]string{"path=/lower"}, append(slices.Clone(base[1:]), "SystemRoot=C:\\Windows")...)},
	} {
		env, risky := cleanEnv(ours, c.named, c.windows)
		if !slices.Equal(env, c.want) || !slices.Equal(risky, c.risky) {
			t.Errorf("%s:\ngot  %q, %q\nwant %q, %q", c.name, env, risky, c.want, c.risky)
		}
	}
	if env, _ := cleanEnv(nil, nil, false); env == nil {
		t.Error("an empty environment is nil, which would inherit ours")
	}
}
