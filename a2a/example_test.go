package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// exampleCard is the card of the agents in the examples.
var exampleCard = a2a.AgentCard{Name: "shouter", Description: "Says it louder.", Version: "1.0",
	Capabilities:      a2a.AgentCapabilities{Streaming: true},
	DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
	Skills: []a2a.AgentSkill{{ID: "shout", Name: "Shout", Description: "Makes text louder.", Tags: []string{"text"}}}}

// This example runs an agent, and a client that follows its task.
func Example() {
	s := a2a.NewServer(exampleCard, a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		return r.Artifact(ctx, a2a.Artifact{Name: "louder", Parts: []a2a.Part{a2a.Text(strings.ToUpper(r.Message.Text()))}})
	}), nil)
	defer s.Close()
	here, there := inproc.Pipe(nil)
	go func() { _ = s.Serve(context.Background(), there) }()

	c := a2a.Connect(context.Background(), here, nil)
	defer c.Close()
	for e, err := range c.Stream(context.Background(), &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text("hello"))}) {
		switch {
		case err != nil:
			fmt.Println(err)
		case e.Artifact != nil:
			fmt.Println(e.Artifact.Artifact.Name+":", a2a.TextOf(e.Artifact.Artifact.Parts))
		default:
			fmt.Println(e.State())
		}
	}
	// Output:
	// TASK_STATE_SUBMITTED
	// louder: HELLO
	// TASK_STATE_COMPLETED
}

// An agent asks a question with a call. Meanwhile the task waits for its caller.
func ExampleRun_Ask() {
	s := a2a.NewServer(exampleCard, a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		answer, err := r.Ask(ctx, a2a.Text("How loud?"))
		if err != nil {
			return err
		}
		return r.Artifact(ctx, a2a.Artifact{Parts: []a2a.Part{a2a.Text(answer.Text() + ": " + strings.ToUpper(r.Message.Text()))}})
	}), nil)
	defer s.Close()
	here, there := inproc.Pipe(nil)
	go func() { _ = s.Serve(context.Background(), there) }()
	c := a2a.Connect(context.Background(), here, nil)
	defer c.Close()

	first, _ := c.Send(context.Background(), &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text("hello"))})
	fmt.Println(first.Task.Status.State, first.Task.Status.Message.Text())

	answer := a2a.UserMessage(a2a.Text("Very"))
	answer.TaskID = first.Task.ID
	then, _ := c.Send(context.Background(), &a2a.SendRequest{Message: answer})
	fmt.Println(then.Task.Status.State, then.Task.Text())
	// Output:
	// TASK_STATE_INPUT_REQUIRED How loud?
	// TASK_STATE_COMPLETED Very: HELLO
}

// Errors of the protocol have a kind, and further information in their details.
func ExampleDetails() {
	err := a2a.Fault(a2a.ErrTaskNotFound, "", "taskId", "7")
	fmt.Println(errors.Is(err, a2a.ErrTaskNotFound))
	for _, d := range a2a.Details(err) {
		fmt.Println(d.Reason, d.Metadata["taskId"])
	}
	// Output:
	// true
	// TASK_NOT_FOUND 7
}

// Apply updates a task with the events of its stream.
func ExampleTask_Apply() {
	var task a2a.Task
	task.Apply(a2a.Event{Task: &a2a.Task{ID: "7", Status: a2a.TaskStatus{State: a2a.StateWorking}}})
	for _, word := range []string{"Hel", "lo"} {
		task.Apply(a2a.Event{Artifact: &a2a.ArtifactUpdate{TaskID: "7", Append: true, Artifact: a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.Text(word)}}}})
	}
	fmt.Println(task.ID, task.Status.State, task.Text())
	// Output: 7 TASK_STATE_WORKING Hello
}
