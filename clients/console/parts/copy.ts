/** Copies text to the clipboard. */

/**
 * Copies the text of an element. Returns false if the browser has no clipboard, as on pages that are
 * served over plain HTTP, or does not allow its use. The text is then selected, for copying by
 * keyboard.
 */
export async function copyText(text: string, element: Element | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    if (element) getSelection()?.selectAllChildren(element);
    // Works without a clipboard in most browsers, although it is deprecated.
    return element !== null && document.execCommand('copy');
  }
}

/** Message for a text that is selected but not copied. */
export const selectedMessage = 'Selected: copy it with Ctrl+C or ⌘C';
