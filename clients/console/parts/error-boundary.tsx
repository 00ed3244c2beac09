/** Error boundary: an error in one part of a page does not break the rest. */
import { Component, type ReactNode } from 'react';
import { useLocation } from 'wouter';
import { LoadError } from './lazy-page.tsx';

interface State {
  error: Error | null;
}

interface BoundaryProps {
  /** Path of the page. Another page is shown without the error of this one. */
  path: string;
  children: ReactNode;
}

/** Shows its children or, if one throws, the error with a button to try again. */
export function ErrorBoundary({ children }: { children: ReactNode }) {
  const [path] = useLocation();
  return <Boundary path={path}>{children}</Boundary>;
}

class Boundary extends Component<BoundaryProps, State> {
  override state: State = { error: null };

  static getDerivedStateFromError(error: Error): State {
    return { error };
  }

  override componentDidUpdate({ path }: BoundaryProps): void {
    if (this.state.error && path !== this.props.path) this.#tryAgain();
  }

  readonly #tryAgain = (): void => {
    if (this.state.error instanceof LoadError) this.state.error.forget();
    this.setState({ error: null });
  };

  override render(): ReactNode {
    const { error } = this.state;
    if (!error) return this.props.children;
    const isNotLoaded = error instanceof LoadError;
    return (
      <section className="empty" role="alert">
        <h1>{isNotLoaded ? 'This page could not be loaded' : 'This page could not be shown'}</h1>
        <p>
          {isNotLoaded
            ? 'The gateway does not respond, or has been upgraded. Your drafts are kept.'
            : error.message}
        </p>
        <button type="button" onClick={this.#tryAgain}>
          Try again
        </button>
      </section>
    );
  }
}
