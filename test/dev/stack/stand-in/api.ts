import { serve } from './service.ts';

serve(Number(process.env['API_PORT']));
