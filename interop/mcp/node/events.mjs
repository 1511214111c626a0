// An event store as both SDKs want one: what was sent, by stream, so that a client that comes back gets the rest.
export class Events {
  #all = [];

  async storeEvent(streamId, message) {
    this.#all.push({ streamId, message });
    return `${streamId}:${this.#all.length}`;
  }

  async getStreamIdForEventId(eventId) {
    return eventId.slice(0, eventId.lastIndexOf(':'));
  }

  async replayEventsAfter(lastEventId, { send }) {
    const streamId = await this.getStreamIdForEventId(lastEventId);
    const seen = Number(lastEventId.slice(lastEventId.lastIndexOf(':') + 1));
    for (let i = seen; i < this.#all.length; i++) {
      const event = this.#all[i];
      if (event.streamId === streamId) await send(`${streamId}:${i + 1}`, event.message);
    }
    return streamId;
  }
}
