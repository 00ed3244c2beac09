import { serve } from './service.ts';

serve(Number(process.env['SANDBOX_PORT']));
