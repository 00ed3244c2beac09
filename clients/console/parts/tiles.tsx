/** Linked numbers with their names. */
import type { ReactNode } from 'react';
import { Link } from 'wouter';

/** Number with its name; the worst are shown first. */
export interface Tile {
  name: string;
  value: ReactNode;
  hint: ReactNode;
  /** Page of the console, or URL of the Temporal UI. Null if the number has no page. */
  href?: string | null | undefined;
  isBad?: boolean | undefined;
}

/** Shows numbers as tiles, bad ones first. */
export function Tiles({ tiles }: { tiles: readonly Tile[] }) {
  return (
    <ul className="tiles" aria-label="Figures">
      {tiles
        .toSorted((one, other) => Number(other.isBad ?? false) - Number(one.isBad ?? false))
        .map((tile) => (
          <li key={tile.name} className={tile.isBad ? 'bad' : undefined}>
            <TileLink {...tile} />
          </li>
        ))}
    </ul>
  );
}

function TileLink({ name, value, hint, href = null }: Tile) {
  const content = (
    <>
      <span className="dim">{name}</span>
      <strong>{value}</strong>
      <span className="hint">{hint}</span>
    </>
  );
  if (href === null) return <span className="tile">{content}</span>;
  return href.startsWith('/') ? (
    <Link className="tile" href={href}>
      {content}
    </Link>
  ) : (
    <a className="tile" href={href} target="_blank" rel="noreferrer">
      {content}
    </a>
  );
}

/** Returns the URL of the workflows that match a query in the Temporal UI; null if it has no URL. */
export const toTemporalList = (url: string | null, query: string): string | null =>
  url && `${url}?query=${encodeURIComponent(query)}`;
