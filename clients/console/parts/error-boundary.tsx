/** Error boundary: an error in one part of a page does not break the rest. */
import { Component, type ReactNode } from 'react';

interface State {
  error: Error | null;
}

/** Shows its children or, if one throws, the error with a button to try again. */
export class ErrorBoundary extends Component<{ children: ReactNode }, State> {
  override state: State = { error: null };

  static getDerivedStateFromError(error: Error): State {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <section className="empty" role="alert">
        <h1>This part of the page could not be shown</h1>
        <p>{error.message}</p>
        <button type="button" onClick={() => this.setState({ error: null })}>
          Try again
        </button>
      </section>
    );
  }
}
