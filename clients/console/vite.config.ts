import { defineConfig } from 'vite';

/** Build configuration of the console. The API serves the built files below /console. */
export default defineConfig({
  root: import.meta.dirname,
  base: '/console/',
  build: { outDir: 'dist', emptyOutDir: true, target: 'es2023', assetsInlineLimit: 0 },
  // `npm run dev -- console` serves the pages from their sources and forwards API requests.
  server: { proxy: { '/api': 'http://127.0.0.1:4000', '/files': 'http://127.0.0.1:4000' } },
});
