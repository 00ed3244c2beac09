/** The form of an edit at OpenAI: if it cannot be made, nothing was sent. */
import { expect, it } from 'vitest';
import { createEditForm } from '../../providers/openai/edit-form.ts';
import { createOutbound } from '../../platform/outbound.ts';

it('the form of an edit that fails inside the gateway leaves the call unsent, so that it may be sent again', async () => {
  const outbound = createOutbound({ admittedOrigins: [] });
  // The disk is full.
  outbound.fetch = () => Promise.reject(new Error('ENOSPC'));
  const input = { image_urls: ['https://files.example/a.png'], prompt: 'a tree' };
  const signal = AbortSignal.timeout(1000);
  await expect(createEditForm(input, { outbound, signal })).rejects.toMatchObject({
    name: 'ProviderFailure',
    kind: 'not_accepted',
  });
});
