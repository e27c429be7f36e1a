// A stream of server-sent events, read from a response. (`EventSource` cannot send a key.)

/** Splits text into events, and keeps what is not complete yet. */
export class EventParser {
  private rest = "";

  /** The data of the events that this piece of text completes. */
  add(text: string): string[] {
    // A carriage return at the end may be the first half of a line end.
    const whole = (this.rest + text).replace(/\r\n/g, "\n");
    const end = whole.lastIndexOf("\n\n");
    if (end < 0) {
      this.rest = whole;
      return [];
    }
    this.rest = whole.slice(end + 2);
    return whole.slice(0, end).split("\n\n").flatMap((event) => {
      const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(line[5] === " " ? 6 : 5));
      return data.length ? [data.join("\n")] : [];
    });
  }
}

/** Calls `use` with the data of the newest event of each piece that arrives, and `alive` for each piece. */
export async function readEvents(stream: ReadableStream<Uint8Array>, use: (data: string) => void, alive: () => void): Promise<void> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    const events = parser.add(decoder.decode(value, { stream: true }));
    if (events.length) use(events[events.length - 1]);
  }
}
