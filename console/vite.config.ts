import { defineConfig } from 'vite';

/** Served below /console by the API. */
export default defineConfig({
  root: import.meta.dirname,
  base: '/console/',
  build: { outDir: 'dist', emptyOutDir: true, target: 'es2023', assetsInlineLimit: 0 },
  // `npm run dev -- console`: the pages at once, the API behind them.
  server: { proxy: { '/api': 'http://127.0.0.1:4000', '/files': 'http://127.0.0.1:4000' } },
});
