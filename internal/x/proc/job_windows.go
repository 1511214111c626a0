package proc

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Not verified: this file compiles for Windows and has not run there.

// A job contains a child and its descendants. The system ends them when the last handle of the job
// is closed. Only this process holds a handle.
type job struct{ handle windows.Handle }

// take assigns a child that has just started to the job. Processes that it started before are
// outside.
func (j *job) take(p *os.Process) {
	handle, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return // only the child is ended
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(handle, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err == nil {
		var child windows.Handle
		if child, err = windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(p.Pid)); err == nil {
			err = windows.AssignProcessToJobObject(handle, child)
			_ = windows.CloseHandle(child)
		}
	}
	if err != nil {
		_ = windows.CloseHandle(handle) // likewise
		return
	}
	j.handle = handle
}

// kill ends all processes of the job.
func (j *job) kill() {
	if j.handle != 0 {
		_ = windows.TerminateJobObject(j.handle, 1) // an error means that they have ended already
	}
}

func (j *job) close() {
	if j.handle != 0 {
		_ = windows.CloseHandle(j.handle)
	}
}
