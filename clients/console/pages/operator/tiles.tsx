/** Linked numbers that show whether anything is wrong. */
import { Link } from 'wouter';

/** Number with its name; the worst are shown first. */
export interface Tile {
  name: string;
  value: string;
  hint: string;
  /** Page of the console, or URL of the Temporal UI. */
  href: string | null;
  isBad: boolean;
}

/** Shows numbers as tiles, bad ones first. */
export function Tiles({ tiles }: { tiles: readonly Tile[] }) {
  return (
    <ul className="tiles" aria-label="Figures">
      {tiles
        .toSorted((one, other) => Number(other.isBad) - Number(one.isBad))
        .map((tile) => (
          <li key={tile.name} className={tile.isBad ? 'bad' : undefined}>
            <TileLink {...tile} />
          </li>
        ))}
    </ul>
  );
}

function TileLink({ name, value, hint, href }: Tile) {
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
