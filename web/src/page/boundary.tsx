import { Component, type ComponentChildren } from "preact";

/** A section that fails says so, and the other sections stay. */
export class Boundary extends Component<{ name: string; children: ComponentChildren }, { problem: string | null }> {
  state = { problem: null as string | null };

  componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ problem: error instanceof Error ? error.message : String(error) });
  }

  render() {
    const { problem } = this.state;
    if (problem === null) return this.props.children;
    return <p class="problem" role="alert">“{this.props.name}” could not be drawn, because the page's script failed: {problem}. The other sections are not affected.</p>;
  }
}
