import { defineConfig } from 'vite';

/** Build configuration of the console. The API serves the built files below /console. */
export default defineConfig({
  root: import.meta.dirname,
  base: '/console/',
  build: {
    outDir: 'dist',
    // `build.ts` removes the files of earlier releases after some days: open tabs still request them.
    emptyOutDir: false,
    target: 'es2023',
    assetsInlineLimit: 0,
    // One file of styles is loaded with the first page, and cannot be missing later.
    cssCodeSplit: false,
  },
  // `npm run dev -- console` serves the pages from their sources and forwards API requests.
  server: { proxy: { '/api': 'http://127.0.0.1:4000', '/files': 'http://127.0.0.1:4000' } },
});
