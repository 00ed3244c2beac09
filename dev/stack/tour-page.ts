/** The page of the demo: everything that was made, to look at and to listen to. */

/** One call and what it made. */
export interface TourStop {
  title: string;
  path: string;
  credits: number;
  /** Names of files beside the page. */
  files: string[];
  data: unknown;
}

/** The page as HTML. */
export function tourPage(stops: readonly TourStop[]): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Studio Gateway: what the demo made</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1d2430; background: #f6f7f9; }
  main { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1.25rem; }
  article { background: #fff; border: 1px solid #dfe3e8; border-radius: 10px; padding: 1rem; overflow: hidden; }
  h2 { font-size: 1.05rem; margin: 0 0 .25rem; }
  p { margin: 0 0 .75rem; color: #5b6675; font-size: .85rem; }
  img, video, audio { width: 100%; border-radius: 6px; margin-bottom: .5rem; }
  img { background: repeating-conic-gradient(#dfe3e8 0 25%, #fff 0 50%) 0 0 / 20px 20px; }
  details pre { font-size: .75rem; overflow: auto; max-height: 18rem; background: #f6f7f9; padding: .5rem; }
</style>
</head>
<body>
<h1>What the demo made</h1>
<main>
${stops.map(section).join('\n')}
</main>
</body>
</html>
`;
}

function section(stop: TourStop): string {
  return `<article>
<h2>${escapeHtml(stop.title)}</h2>
<p>${escapeHtml(stop.path)} · ${stop.credits.toFixed(3)} credits</p>
${stop.files.map(player).join('\n')}
<details><summary>answer</summary><pre>${escapeHtml(JSON.stringify(stop.data, null, 2).slice(0, 8000))}</pre></details>
</article>`;
}

function player(file: string): string {
  const name = escapeHtml(file);
  if (/\.(png|jpe?g|webp)$/.test(file)) return `<img src="${name}" alt="${name}" loading="lazy">`;
  if (/\.(mp4|webm)$/.test(file))
    return `<video src="${name}#t=0.1" preload="auto" controls muted loop></video>`;
  if (/\.(mp3|wav)$/.test(file)) return `<audio src="${name}" controls></audio>`;
  return `<a href="${name}">${name}</a>`;
}

function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
